"""What is to be measured, in which order, and the shape of the results. Frozen data and pure functions.

The terms are those of the method. A *trial* is one server process started fresh and one run of the generator against
it. A *block* is one trial of each contestant, next to each other in time, in random order. A *comparison* is n blocks
of one setting of the axes. A *plan* is a question: its comparisons, their order, and the published figures about it.

Nothing here reads a clock or the network; only `load_experiment` reads a file. The order is a hash of the seed, not the
state of a random generator, so the place of any trial can be computed alone: this makes a run resumable.
"""
