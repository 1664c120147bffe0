"""Every example kernel with inputs and its torch reference: what the demo shows and the tests check."""

from examples.catalog import attention, launches, products, tensors, vectors
from examples.catalog.example import Example

EXAMPLES: tuple[Example, ...] = (
    *vectors.EXAMPLES,
    *products.EXAMPLES,
    *launches.EXAMPLES,
    *attention.EXAMPLES,
    *tensors.EXAMPLES,
)

__all__ = ["EXAMPLES", "Example"]
