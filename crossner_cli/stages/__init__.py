"""One module per command: ``run(run, options, engine)`` is a generator of progress that returns a manifest."""
