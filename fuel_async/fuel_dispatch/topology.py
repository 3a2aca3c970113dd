"""The seeds' module `topology`: what backends and devices there are, who shares storage, and how bytes get about."""

from fuel_async.registry import SystemTopology as SystemTopology
