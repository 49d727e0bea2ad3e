package ai.onnxruntime;

/** A stand-in. */
public interface ValueInfo {}
