"""Suites that others wrote, run against this project, and the page of what they found.

`make conformance` runs all of them; `docs/conformance.md` has the results. A suite is a module of `suites/`: it returns
outcomes, and judges nothing itself that its authors judge. Each suite's packages are in an environment of their own.
"""
