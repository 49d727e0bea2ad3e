package ai.edgemem.demo;

import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/** Memory of the whole process, as Linux counts it. */
final class ProcessMemory {
  private ProcessMemory() {}

  /** Bytes of the process that are in RAM now (VmRSS of /proc/self/status), or -1 if the system does not tell. */
  static long resident() {
    try (BufferedReader reader =
        new BufferedReader(
            new InputStreamReader(new FileInputStream("/proc/self/status"), StandardCharsets.UTF_8))) {
      String line = reader.readLine();
      while (line != null) {
        if (line.startsWith("VmRSS:")) {
          return 1024 * Long.parseLong(line.replaceAll("[^0-9]", ""));
        }
        line = reader.readLine();
      }
    } catch (IOException | NumberFormatException e) {
      return -1;
    }
    return -1;
  }
}
