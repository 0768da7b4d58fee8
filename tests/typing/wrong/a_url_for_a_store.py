"""The address of a store for the store."""

from toolwire import generate

generate("Hello", traces="sqlite:///traces.db")  # error: call-overload, reportArgumentType
