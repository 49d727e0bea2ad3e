package ai.edgemem.demo;

import ai.edgemem.Port;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.FloatBuffer;
import java.nio.file.Files;
import java.nio.file.Paths;

/**
 * Writes what the app feeds an input with, so that a test can feed the same elsewhere.
 *
 * <pre>
 *   java -cp host:app ai.edgemem.demo.Inputs TYPE D0,D1,D2,D3 SCALE FILE
 * </pre>
 *
 * The values before they are rounded for the type, as floats of 4 bytes, the highest byte first.
 */
public final class Inputs {
  private Inputs() {}

  public static void main(String[] args) throws IOException {
    String[] sizes = args[1].split(",");
    long[] shape = new long[sizes.length];
    for (int i = 0; i < shape.length; i++) {
      shape[i] = Long.parseLong(sizes[i]);
    }
    Port port = new Port("picture", args[0], shape);
    if (!Picture.isFor(port)) {
      throw new IllegalArgumentException(port + " is not fed with a picture");
    }
    FloatBuffer values = Picture.drawn().values(port, Config.Scale.valueOf(args[2]));
    try (OutputStream file = Files.newOutputStream(Paths.get(args[3]));
        DataOutputStream out = new DataOutputStream(new java.io.BufferedOutputStream(file))) {
      while (values.hasRemaining()) {
        out.writeFloat(values.get());
      }
    }
  }
}
