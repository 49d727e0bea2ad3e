package ai.onnxruntime;

/** A stand-in. */
public class OrtException extends Exception {
  public OrtException(String message) {
    super(message);
  }
}
