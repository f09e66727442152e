"""The figures of the handout: one module per page, such as `c05_resource_accounting`.

That module belongs to `05_resource_accounting.md`. Pages with few figures are in `small_pages`.
"""
