"""Kernels of devices that run grids of threads: what they compute as plans of dispatches, whoever runs these.

A dispatch names its code, as a module of the catalog or as a form that is printed; the backends turn that into what
their drivers take. Nothing here knows a driver or touches a device.
"""
