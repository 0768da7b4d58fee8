"""A word that no effort is."""

from toolwire import generate

generate("Hello", effort="huge")  # error: call-overload, reportArgumentType
