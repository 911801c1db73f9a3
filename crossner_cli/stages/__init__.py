"""One module per command: ``run(run_directory, options, engine)`` is a generator of progress that returns a manifest."""
