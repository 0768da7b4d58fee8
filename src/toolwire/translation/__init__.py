"""One dialect as another: whole bodies, streams, errors, and the codec of definitions, calls and results."""
