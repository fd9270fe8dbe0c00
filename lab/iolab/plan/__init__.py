"""What is to be measured, in which order, and the shape of what comes back. Frozen data and pure functions.

The words are those of the method. A *trial* is one server process started fresh and one run of the generator against
it. A *block* is one trial of each contestant, next to each other in time, in random order. A *comparison* is n
blocks of one setting of the axes. A *plan* is a question: its comparisons, their order, and what others published
about it.

Nothing here reads a clock or the network; only `load_experiment` reads a file. Order is a hash of the seed and not a
random generator's state, so any trial's place can be worked out alone: that is what makes a run resumable.
"""
