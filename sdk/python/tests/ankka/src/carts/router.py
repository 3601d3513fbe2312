"""Sends each cart to one of two outlets by its total."""

from collections.abc import Iterable

from ankka_flow import Batch, Emit, IntegerParameter, JsonInlet, JsonOutlet, Streamlet, json


class CartRouter(Streamlet):
    name = "cart-router"
    description = "Routes cart events to the valid or review outlet."
    inlet = JsonInlet("in", schema_name="cart-events.v1")
    valid = JsonOutlet("valid", schema_name="cart-events.v1")
    review = JsonOutlet("review", schema_name="cart-events.v1")
    threshold = IntegerParameter(
        "review-threshold", default=100, description="Carts with a total above this go to the review outlet."
    )

    def process(self, batch: Batch) -> Iterable[Emit]:
        most = self.config[self.threshold]
        for record in batch:
            total = json.loads(record.value)["total"]
            yield (self.review if total > most else self.valid).emit(record)
