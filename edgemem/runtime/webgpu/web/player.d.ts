/** Runs models that `edgemem export -f web` wrote, inside their plans, through WebGPU. */

export type Dtype =
  | "float32" | "float16" | "bool" | "int8" | "uint8" | "int16" | "uint16" | "int32" | "uint32" | "int64" | "uint64";

/** An input or output of a model. */
export interface Border {
  name: string;
  dtype: Dtype;
  shape: number[];
  /** Its tensor's number in the program. */
  tensor: number;
}

/** Numbers in the order of a tensor's axes. */
export type Value = ArrayLike<number> | ArrayLike<bigint>;

/** Float16Array, where the library of TypeScript's types has it. */
type Halves = typeof globalThis extends { Float16Array: new (...given: any) => infer Type } ? Type : never;

export interface Output {
  data:
    | Float32Array | Halves | Int8Array | Uint8Array | Int16Array | Uint16Array | Int32Array | Uint32Array
    | BigInt64Array | BigUint64Array;
  shape: number[];
}

export interface Plan {
  strategy: string;
  /** Bytes of the memory that was planned. */
  size: number;
  lower_bound: number;
  /** Bytes without any sharing. */
  naive: number;
  digest: string;
}

export interface LoadOptions {
  /** The digest (SHA-256, hexadecimal) of program.json, which names those of the other files. */
  sha256?: string;
  /** false: each tensor in memory of its own, to compare with. */
  shared?: boolean;
  powerPreference?: "low-power" | "high-performance";
  /** Called after each file that is loaded and each kernel that is compiled. */
  progress?: (step: { stage: "download" | "compile"; done: number; total: number }) => void;
}

export class EdgememError extends Error {}

export class Model {
  private constructor();
  readonly name: string;
  readonly plan: Plan;
  readonly program: Program;
  readonly inputs: Border[];
  readonly outputs: Border[];
  /** Bytes allocated for tensors, as the browser reports them: those of the plan. */
  readonly bytes: number;
  /** Bytes allocated for weights. */
  readonly weightBytes: number;
  /** Kernels that were compiled. */
  readonly kernels: number;
  run(feeds: Record<string, Value>): Promise<Record<string, Output>>;
  close(): void;
}

/** Load a bundle from a folder, check it and put it on the GPU. Rejects with an EdgememError that says what is wrong. */
export function load(folder: string | URL, options?: LoadOptions): Promise<Model>;

/** program.json. Places of tensors and ranges of weights are in bytes, extents in texels. */
export interface Program {
  format: "edgemem-program";
  version: 1;
  name: string;
  storage: "buffer" | "texture2d" | "texture-linear" | "texture-array";
  precision: "fp32" | "fp16";
  plan: Plan;
  /** Bytes of a buffer, extent of a texture, or extent and layers of an array. */
  pieces: number[][];
  tensors: ProgramTensor[];
  constants: number[];
  /** Buffer, offset and bytes of each array of weights. */
  arrays: [number, number, number][];
  /** What stands before each kernel; the second for devices with `shader-f16`. */
  preludes: [string, string?];
  kernels: { name: string; offset: number; bytes: number; layout: [number, string][] }[];
  passes: ProgramPass[];
  inputs: Border[];
  outputs: Border[];
  files: Record<"kernels.wgsl" | "weights.bin", { bytes: number; sha256: string }>;
}

export interface ProgramTensor {
  name: string;
  piece: number;
  offset: number;
  bytes: number;
  /** Batch, height, width, channels. */
  dims: number[];
  channels_first: boolean;
  /** Width, height and layers in a texture; [] in a buffer. */
  extent: number[];
  row: number;
}

/** A run of a kernel; or a tensor (the second) that is another one under a second name. */
export interface ProgramPass {
  op: string;
  view?: [number, number];
  kernel: number;
  /** Binding and tensor; the last is written. */
  tensors: [number, number][];
  arrays: [number, number][];
  reads: number[];
  /** The input that is written over, or -1. */
  over: number;
  groups: [number, number, number];
  /** Whether it is the first to write this output, and how many passes write other parts of it later. */
  part: [boolean, number];
}
