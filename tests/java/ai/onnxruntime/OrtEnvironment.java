package ai.onnxruntime;

import java.util.EnumSet;

/** A stand-in: one in a process. Its providers are those that the property `fake.providers` names, besides the CPU. */
public final class OrtEnvironment implements AutoCloseable {
  private static final OrtEnvironment ONE = new OrtEnvironment();

  private OrtEnvironment() {}

  public static synchronized OrtEnvironment getEnvironment() {
    return ONE;
  }

  public static EnumSet<OrtProvider> getAvailableProviders() {
    EnumSet<OrtProvider> all = EnumSet.of(OrtProvider.CPU);
    for (String name : System.getProperty("fake.providers", "").split(",")) {
      if (!name.isEmpty()) {
        all.add(OrtProvider.valueOf(name));
      }
    }
    return all;
  }

  public OrtSession createSession(byte[] model, OrtSession.SessionOptions options) throws OrtException {
    return new OrtSession(model, options);
  }

  public String getVersion() {
    return "0.0";
  }

  @Override
  public void close() {}
}
