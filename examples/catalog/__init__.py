"""Every example kernel with inputs and its torch reference: what the demo shows and the tests check."""

from examples.catalog import attention, launches, models, products, tensor_products, tensors, vectors
from examples.catalog.example import Example

EXAMPLES: tuple[Example, ...] = (
    *vectors.EXAMPLES,
    *products.EXAMPLES,
    *launches.EXAMPLES,
    *attention.EXAMPLES,
    *tensors.EXAMPLES,
    *tensor_products.EXAMPLES,
    *models.EXAMPLES,
)

__all__ = ["EXAMPLES", "Example"]
