"""A document with every kind of part."""

from shardlings.documents import (
    Badge,
    Bar,
    Code,
    Document,
    Figure,
    Fold,
    Heading,
    Link,
    Pairs,
    Paragraph,
    SideBySide,
    Small,
    Table,
    TableRow,
)

LONG = "jax.device_put(x, sharding)  # " + "a long comment " * 5

DOCUMENT = Document(
    (
        Heading((Badge("✗", "#b54a00"), " Not <yet>")),
        Paragraph(("The array ", Code("x", "`"), " is replicated. ", Small("JAX says: no & yes"))),
        Pairs((("Expected", Code("P('x')")), ("Got", "something else"))),
        Table(
            ("line", "bytes"),
            (
                TableRow((Code("x.sum()"), "16")),
                TableRow(((Small("line 3"), " ", Code(LONG)), "2,816"), below=("✓ one", "○ two")),
                TableRow(("all together", "2,832"), is_bold=True),
            ),
            align="lr",
        ),
        Table((), (TableRow(("arithmetic", Bar(0.25, "3 ms", squares=8), "3 ms")),)),
        Figure(lambda: '<svg aria-label="drawn"/>', lambda: "drawn"),
        SideBySide((Document((Paragraph("left"),)), Document((Paragraph("right"),)))),
        Fold("Details", (Paragraph(("See ", Link("there", "../there"))),)),
    ),
    edge="#b54a00",
)
