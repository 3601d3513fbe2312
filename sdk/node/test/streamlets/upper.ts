// A streamlet in TypeScript, which the type check reads and a test runs.
import { JsonInlet, JsonOutlet, serve, Streamlet, StringParameter, type Batch, type Context, type Emit } from "../../dist/index.js";

class Upper extends Streamlet {
  readonly name = "upper";
  readonly in = new JsonInlet("in", { schemaName: "text.v1" });
  readonly out = new JsonOutlet("out", { schemaName: "text.v1" });
  readonly suffix = new StringParameter("suffix", { default: "?" });

  override async *process(batch: Batch, context: Context): AsyncGenerator<Emit> {
    console.log(`${batch.records.length} records of ${context.topic}`);
    for (const record of batch.records) {
      const suffix: string = this.config.get(this.suffix);
      yield this.out.emit(record, { value: (record.text() ?? "").toUpperCase() + suffix });
    }
  }
}

serve(new Upper());
