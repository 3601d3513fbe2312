"""Routes carts: those with a large total go to a person for review, the others are valid.

`make demo` runs it with records to begin with, and starts it again when it is saved. Without make, from the
repository's root:

    PYTHONPATH=sdk/python/src ./ankka-flow run --input in=examples/carts.jsonl -- python3 examples/cart_router.py
"""

from ankka_flow import (
    Context,
    Emit,
    IntegerParameter,
    JsonInlet,
    JsonOutlet,
    Record,
    Streamlet,
    json,
    serve,
)


class CartRouter(Streamlet):
    name = "cart-router"
    description = "Routes carts to the valid or the review outlet."

    inlet = JsonInlet("in", schema_name="cart.v1")
    valid = JsonOutlet("valid", schema_name="cart.v1")
    review = JsonOutlet("review", schema_name="cart-review.v1")

    threshold = IntegerParameter(
        "review-threshold",
        default=100,
        description="Carts with a total above this go to the review outlet.",
    )

    def process_record(self, record: Record, ctx: Context) -> Emit:
        total = json.loads(record.value)["total"]
        if total > self.config[self.threshold]:
            return self.review.emit(record, value=json.dumps({"total": total}))
        return self.valid.emit(record)


if __name__ == "__main__":
    serve(CartRouter())
