// A page that uses each type of player.d.ts; `code.js` is player.js under a name that has no .d.ts beside it.
import * as code from "./code.js";
import { EdgememError, load, Model, type Dtype, type Output, type Value } from "./player.js";

type Computed = Pick<Model, "program" | "bytes" | "weightBytes" | "run" | "close">;
export const declared: {
  load: (...given: Parameters<typeof load>) => Promise<Computed>;
  EdgememError: typeof EdgememError;
} = code;

export async function described(folder: URL, picture: Float32Array, ids: BigInt64Array): Promise<string> {
  let model: Model;
  try {
    model = await load(folder, {
      sha256: "00",
      shared: false,
      powerPreference: "low-power",
      progress: ({ stage, done, total }) => console.log(stage === "compile", (done / total).toFixed(2)),
    });
  } catch (error) {
    if (error instanceof EdgememError) return error.message;
    throw error;
  }
  const kinds: Dtype[] = model.inputs.map(({ dtype }) => dtype);
  const feeds: Record<string, Value> = { picture, ids, mask: [1, 0] };
  const found: Record<string, Output> = await model.run(feeds);
  const texts = Object.entries(found).map(([name, { data, shape }]) => {
    const numbers: (number | bigint)[] = Array.from<number | bigint>(data);
    return `${name} [${shape.join()}] of ${data.constructor.name}: ${numbers.slice(0, 5).join()}`;
  });
  const saved: number = model.plan.naive - model.bytes;
  model.close();
  // @ts-expect-error - it is counted by the player
  model.bytes = 0;
  // @ts-expect-error - the option is `shared`
  await load(folder, { share: false });
  // @ts-expect-error - numbers are needed
  await model.run({ picture: "picture.jpg" });
  // @ts-expect-error - `load` makes models
  new Model();
  return `${kinds.join()} ${texts.join()} ${saved} ${model.program.passes.length}`;
}
