"""Faults that a service is put through while jobs are in flight, and what must hold after each.

`ledger` keeps what was asked for and looks what became of it, `load` asks, `fault` says what a
fault is and puts a service through it; then a file for each kind of fault; `catalog` lists all.
"""
