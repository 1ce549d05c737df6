"""The experiments of the programs that wavetrim grew from, on the machine at hand.

Each module measures one of them and makes a report: tables, plots and rows of figures, beside
those that the programs' documents give. The measuring needs a GPU, the report does not.
"""
