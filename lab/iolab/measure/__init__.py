"""Everything that runs: the engine, the servers, one trial after another."""
