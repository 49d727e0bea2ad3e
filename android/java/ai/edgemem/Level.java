package ai.edgemem;

import ai.onnxruntime.OrtSession;

/** How far ONNX Runtime rewrites a graph when it loads it. A recording in a file fits sessions of its own level. */
public enum Level {
  NONE(OrtSession.SessionOptions.OptLevel.NO_OPT),
  BASIC(OrtSession.SessionOptions.OptLevel.BASIC_OPT),
  /** What {@code edgemem plan --record --android} records. */
  EXTENDED(OrtSession.SessionOptions.OptLevel.EXTENDED_OPT),
  /** With layouts for the processor that the session runs on. */
  ALL(OrtSession.SessionOptions.OptLevel.ALL_OPT);

  final OrtSession.SessionOptions.OptLevel named;

  Level(OrtSession.SessionOptions.OptLevel named) {
    this.named = named;
  }
}
