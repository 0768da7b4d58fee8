"""A dialect over a dialect: a wire whose tools, calls and results are words."""
