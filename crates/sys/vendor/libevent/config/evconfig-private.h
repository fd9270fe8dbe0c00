/* The release's configure asks for GNU extensions here; build.rs does it on the command line. */
