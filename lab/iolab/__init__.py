"""iolab: which I/O and concurrency model should my network server use, answered with evidence.

The modules are nouns, and each says first what it is for. `plan` and `contract` hold the data; `stats`, `trial`,
`verdict` and `claims` are pure functions over it; `store` keeps it. They run without an engine or a Rust toolchain.
"""
