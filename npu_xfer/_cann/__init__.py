"""The ctypes binding of the ACL library: the control plane. Copies go through the native engine instead.

Importing this package loads nothing. `locate` decides which library, `library` opens it, `runtime` calls it;
`abi` and `codes` are the tables behind them.
"""
