// Doubles numbers; a debugger stops in its handler.
import { JsonInlet, JsonOutlet, Streamlet, serve } from "../../dist/index.js";

class Debugged extends Streamlet {
  name = "debugged";
  in = new JsonInlet("in", { schemaName: "any.v1" });
  out = new JsonOutlet("out", { schemaName: "any.v1" });

  processRecord(record) {
    let doubled = 2 * Number(record.text());
    debugger;
    console.log(`doubled is ${doubled}`);
    return this.out.emit(record, { value: String(doubled) });
  }
}

serve(new Debugged());
