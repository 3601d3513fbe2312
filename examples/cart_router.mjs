// Routes carts: those with a large total go to a person for review, the others are valid. The same as
// cart_router.py, for Node.js. From the repository's root:
//
//     make sdk-node
//     ./ankka-flow run --input in=examples/carts.jsonl -- node examples/cart_router.mjs
//
// In a project of its own, after `npm install` of sdk/node, the import is from "ankka-flow".

import { IntegerParameter, JsonInlet, JsonOutlet, Streamlet, serve } from "../sdk/node/dist/index.js";

class CartRouter extends Streamlet {
  name = "cart-router";
  description = "Routes carts to the valid or the review outlet.";

  inlet = new JsonInlet("in", { schemaName: "cart.v1" });
  valid = new JsonOutlet("valid", { schemaName: "cart.v1" });
  review = new JsonOutlet("review", { schemaName: "cart-review.v1" });

  threshold = new IntegerParameter("review-threshold", {
    default: 100,
    description: "Carts with a total above this go to the review outlet.",
  });

  processRecord(record) {
    const { total } = record.json();
    if (total > this.config.get(this.threshold)) return this.review.emit(record, { json: { total } });
    return this.valid.emit(record);
  }
}

serve(new CartRouter());
