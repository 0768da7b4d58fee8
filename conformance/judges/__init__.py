"""Modules that run in the environments of the suites, beside the packages of their authors."""
