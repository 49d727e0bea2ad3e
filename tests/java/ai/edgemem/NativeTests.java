package ai.edgemem;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;

/** The library with its native half; the properties `library`, `planned` and `plain` are paths of it and of models. */
final class NativeTests {
  static {
    PlanFile.load(System.getProperty("library"));
  }

  private NativeTests() {}

  private static byte[] bytes(String property) throws IOException {
    return Files.readAllBytes(Paths.get(System.getProperty(property)));
  }

  /** Each plan and each of its records in a line, for a comparison with what Python reads. */
  public static void main(String[] args) throws IOException {
    try (PlanFile file = PlanFile.ofOnnx(bytes("planned"))) {
      for (PlanSet set : file.sets()) {
        System.out.println(
            String.join(
                "|",
                "set",
                set.kind.name(),
                set.target,
                set.strategy,
                set.runtime,
                set.version,
                String.valueOf(set.arena),
                String.valueOf(set.lowerBound),
                String.valueOf(set.naive),
                String.valueOf(set.isOptimal)));
        for (Record r : set.records()) {
          System.out.println(String.join("|", "record", r.name, r.first + " " + r.last + " " + r.size + " " + r.offset));
        }
      }
    }
  }

  static void testWhatIsNoPlanIsRefused() throws IOException {
    byte[] plain = bytes("plain");
    String none = Check.refusal(IllegalArgumentException.class, () -> PlanFile.ofOnnx(plain));
    Check.equal(true, none.contains("no plan"));
    byte[] rubbish = "rubbish".getBytes(StandardCharsets.UTF_8);
    Check.refusal(IllegalArgumentException.class, () -> PlanFile.ofOnnx(rubbish));
    Check.refusal(IllegalArgumentException.class, () -> PlanFile.ofTflite(rubbish));
    Check.refusal(IllegalArgumentException.class, () -> PlanFile.ofFile(rubbish));
    Check.refusal(IllegalArgumentException.class, () -> PlanFile.ofFile(new byte[0]));
  }

  static void testAPlanCutShortIsRefused() throws IOException {
    byte[] all = bytes("planned");
    for (int length = all.length - 1; length > 0; length /= 2) {
      byte[] part = java.util.Arrays.copyOf(all, length);
      Check.refusal(IllegalArgumentException.class, () -> PlanFile.ofOnnx(part));
    }
  }

  static void testSetsOutliveTheirFile() throws IOException {
    PlanFile file = PlanFile.ofOnnx(bytes("planned"));
    file.close();
    file.close();
    Check.equal(true, file.sets().get(0).records().size() > 0);
    Check.equal(
        "the plan file is closed", Check.refusal(IllegalStateException.class, () -> new MemorySession(file, false)));
  }

  static void testASessionOutlivesItsFile() throws IOException {
    PlanFile file = PlanFile.ofOnnx(bytes("planned"));
    try (MemorySession session = new MemorySession(file, true)) {
      file.close();
      session.begin();
      Run run = session.end();
      Check.equal(0L, run.requests);
      Check.equal(0L, run.misses);
      Check.equal(false, run.isComplete);
    }
  }

  static void testARunWithoutRequestsHasNoPlan() {
    try (MemorySession session = new MemorySession(null, false)) {
      for (int i = 0; i < 3; i++) {
        session.begin();
        Run run = session.end();
        Check.equal(Run.Source.RECORDED, run.source);
        Check.equal(0L, run.requests);
        Check.equal(0L, run.replans);
      }
      Check.equal(0, session.places().size());
    }
  }

  static void testRunsBeginAndEndInTurn() throws Exception {
    MemorySession session = new MemorySession(null, false);
    Check.refusal(RuntimeException.class, session::end);
    session.begin();
    Check.refusal(IllegalStateException.class, session::begin);
    Check.refusal(IllegalStateException.class, session::close);
    String[] said = new String[1];
    Thread other = new Thread(() -> said[0] = Check.refusal(RuntimeException.class, session::end));
    other.start();
    other.join();
    Check.equal(false, said[0].isEmpty());
    session.end();
    session.close();
    session.close();
    Check.equal("the session is closed", Check.refusal(IllegalStateException.class, session::begin));
    Check.equal("the session is closed", Check.refusal(IllegalStateException.class, session::places));
  }

  static void testNothingIsLeftInTheLibrary() throws IOException {
    long contexts = Native.totals()[0];
    for (int i = 0; i < 100; i++) {
      try (PlanFile file = PlanFile.ofOnnx(bytes("planned"));
          MemorySession session = new MemorySession(file, false)) {
        session.begin();
        session.end();
      }
    }
    Check.equal(contexts, Native.totals()[0]);
  }

  static void testAClosedHandleIsRefused() {
    Check.refusal(IllegalArgumentException.class, () -> Native.planfileSets(0));
    Check.refusal(IllegalArgumentException.class, () -> Native.sessionEnd(0));
    Check.refusal(IllegalStateException.class, () -> Native.sessionCreate(0, 1 << 20));
    Check.refusal(IllegalArgumentException.class, () -> Native.planfileRead(new byte[9], 7));
  }
}
