package ai.edgemem.demo;

import ai.edgemem.Check;
import ai.edgemem.Made;
import ai.edgemem.PlanSet;
import ai.edgemem.Port;
import ai.edgemem.Record;
import java.nio.ByteBuffer;
import java.nio.FloatBuffer;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The parts of the demo that need no Android. */
final class DemoTests {
  private static final List<String> NO_LABELS = Collections.emptyList();

  private DemoTests() {}

  static void testJsonIsReadAsWritten() {
    Object value = Json.parse(" {\"a\": [1, -2.5e1, true, false, null], \"b\\n\\u00e9\": {\"c\": \"\\\\\"}, \"d\": []} ");
    Check.equal("{a=[1.0, -25.0, true, false, null], b\n\u00e9={c=\\}, d=[]}", value.toString());
  }

  static void testWhatIsNoJsonIsRefused() {
    String deep = new String(new char[100]).replace('\0', '[');
    for (String wrong :
        new String[] {"", "{", "{\"a\"}", "[1,]", "[1 2]", "\"a", "\"\\x\"", "\"\\u12\"", "tru", "1x", "{} {}", "-", deep, "\"\n\""}) {
      Check.refusal(IllegalArgumentException.class, () -> Json.parse(wrong));
    }
  }

  static void testADescriptionHasWhatItSays() {
    Config config =
        Config.of(
            "{\"model\": \"m.onnx\", \"task\": \"faces\", \"labels\": \"l.txt\", \"dims\": {\"N\": 2},"
                + " \"shapes\": {\"x\": [1, 3]}, \"sha256\": \"ab\", \"form\": \"onnx\", \"edgemem\": \"1\"}");
    Check.equal("m.onnx", config.model);
    Check.equal(Config.Task.FACES, config.task);
    Check.equal(Config.Scale.MINUS_ONE_TO_ONE, config.scale);
    Check.equal(ai.edgemem.Level.EXTENDED, config.level);
    Check.equal(ai.edgemem.Level.NONE, Config.of("{\"model\": \"m.onnx\", \"level\": \"none\"}").level);
    Check.equal("l.txt", config.labelFile);
    Check.equal("{N=2}", config.dims.toString());
    Check.equal("[1, 3]", Arrays.toString(config.shapes.get("x")));
    Check.equal(Config.Scale.IMAGENET, Config.of("{\"model\": \"m\", \"task\": \"classes\"}").scale);
    Check.equal("[a, 7.0]", Config.of("{\"model\": \"m\", \"labels\": [\"a\", 7]}").labels.toString());
  }

  static void testADamagedDescriptionIsToldInOneLine() {
    String[][] all = {
      {"{", "edgemem.json is no JSON: the text ends at character 1"},
      {"[]", "edgemem.json is no JSON object"},
      {"{}", "edgemem.json: model has to be a text"},
      {"{\"model\": 1}", "edgemem.json: model has to be a text"},
      {
        "{\"model\": \"m\", \"form\": \"tflite\"}",
        "edgemem.json: form has to be onnx, because this app has ONNX Runtime alone"
      },
      {
        "{\"model\": \"m\", \"task\": \"cats\"}",
        "edgemem.json: task has to be one of classes, faces, tensors, not cats"
      },
      {"{\"model\": \"m\", \"dims\": {\"N\": 1.5}}", "edgemem.json: dims has to be made of whole numbers from 0 to 2147483647"},
      {"{\"model\": \"m\", \"shapes\": {\"x\": 3}}", "edgemem.json: shapes has to be an array of sizes for each input"},
      {"{\"model\": \"m\", \"shapes\": []}", "edgemem.json: shapes has to be an object"},
    };
    for (String[] one : all) {
      Check.equal(one[1], Check.refusal(IllegalArgumentException.class, () -> Config.of(one[0])));
    }
  }

  static void testTheDrawnPictureIsTheSameEverywhere() throws Exception {
    Picture picture = Picture.drawn();
    ByteBuffer bytes = ByteBuffer.allocate(4 * picture.argb.length);
    bytes.asIntBuffer().put(picture.argb);
    StringBuilder text = new StringBuilder();
    for (byte b : MessageDigest.getInstance("SHA-256").digest(bytes.array())) {
      text.append(String.format("%02x", b));
    }
    Check.equal("a30ddc31b892cba3e67f91447ab5379a7e2397ce59be4799c707299005efdac2", text.toString());
  }

  static void testLayoutsOfAPictureHaveTheSamePixels() {
    Picture picture = new Picture(2, 1, new int[] {0xFF000000, 0xFFFF8040});
    Check.equal(
        "[0.0, 1.0, 0.0, 0.5019608, 0.0, 0.2509804]",
        values(picture, "FLOAT", Config.Scale.ZERO_TO_ONE, 1, 3, 1, 2));
    Check.equal(
        "[0.0, 0.0, 0.0, 1.0, 0.5019608, 0.2509804]",
        values(picture, "FLOAT", Config.Scale.ZERO_TO_ONE, 1, 1, 2, 3));
    Check.equal("[0.0, 0.0, 0.0, 255.0, 128.0, 64.0]", values(picture, "UINT8", Config.Scale.IMAGENET, 1, 1, 2, 3));
    Check.equal("[0.0, 149.0]", values(picture, "UINT8", Config.Scale.ZERO_TO_ONE, 1, 1, 1, 2));
    Check.equal(
        "[0.0, 63.75, 191.25, 255.0]", // a channel of red, twice as wide: a quarter of the way in between
        values(new Picture(2, 1, new int[] {0xFF000000, 0xFFFFFFFF}), "UINT8", Config.Scale.ZERO_TO_ONE, 1, 1, 1, 4));
    String mean = values(new Picture(1, 1, new int[] {0xFF7C7468}), "FLOAT", Config.Scale.IMAGENET, 1, 3, 1, 1);
    for (String part : mean.replaceAll("[\\[\\]]", "").split(", ")) {
      Check.near(0, Float.parseFloat(part), 0.02);
    }
  }

  private static String values(Picture picture, String type, Config.Scale scale, long... shape) {
    FloatBuffer values = picture.values(new Port("x", type, shape), scale);
    return Arrays.toString(values.array());
  }

  static void testOnlyInputsForPicturesGetOne() {
    Check.equal(true, Picture.isFor(new Port("x", "FLOAT", new long[] {1, 3, 8, 8})));
    Check.equal(true, Picture.isFor(new Port("x", "UINT8", new long[] {1, 8, 8, 1})));
    Check.equal(false, Picture.isFor(new Port("x", "INT64", new long[] {1, 3, 8, 8})));
    Check.equal(false, Picture.isFor(new Port("x", "FLOAT", new long[] {2, 3, 8, 8})));
    Check.equal(false, Picture.isFor(new Port("x", "FLOAT", new long[] {1, 4, 8, 8})));
    Check.equal(false, Picture.isFor(new Port("x", "FLOAT", new long[] {1, 3, 8})));
  }

  static void testFacesOfTwoPairsOfOutputs() {
    float[] near = filled(512, -50);
    float[] far = filled(384, -50);
    float[] nearBoxes = new float[512 * 16];
    float[] farBoxes = new float[384 * 16];
    int anchor = (3 * 16 + 5) * 2; // the fourth row of 16, the sixth column
    near[anchor] = 2;
    near[anchor + 1] = 1; // the same place, less sure
    for (int k = anchor; k < anchor + 2; k++) {
      System.arraycopy(new float[] {4, -8, 32, 16}, 0, nearBoxes, 16 * k, 4);
    }
    far[(7 * 8 + 7) * 6] = 0.5f; // the last cell of 8 x 8
    System.arraycopy(new float[] {0, 0, 64, 64}, 0, farBoxes, 16 * (7 * 8 + 7) * 6, 4);
    far[0] = 0.3f; // below 60%
    Map<String, float[]> values = new HashMap<>();
    values.put("a", far);
    values.put("b", near);
    values.put("c", farBoxes);
    values.put("d", nearBoxes);
    List<Port> ports =
        Arrays.asList(port("a", 1, 384, 1), port("b", 1, 512, 1), port("c", 1, 384, 16), port("d", 1, 512, 16));
    List<Faces.Box> boxes = Faces.find(ports, values, 128);
    Check.equal(2, boxes.size());
    Check.near(1 / (1 + Math.exp(-2)), boxes.get(0).score, 1e-6);
    Check.near(5.5 / 16 + 4 / 128.0 - 32 / 256.0, boxes.get(0).left, 1e-6);
    Check.near(3.5 / 16 - 8 / 128.0 + 16 / 256.0, boxes.get(0).bottom, 1e-6);
    Check.near(7.5 / 8, (boxes.get(1).left + boxes.get(1).right) / 2, 1e-6);
    Answer answer = Answer.of(Config.Task.FACES, NO_LABELS, ports, values, 128);
    Check.equal("[2 faces, 88% at 0.38, 0.16, size 0.25 x 0.13, 62% at 0.94, 0.94, size 0.50 x 0.50]", answer.lines.toString());
  }

  static void testFacesByCorners() {
    Map<String, float[]> values = new HashMap<>();
    values.put("s", new float[] {0.1f, 0.9f, 0.9f, 0.1f, 0.2f, 0.8f});
    values.put("b", new float[] {0, 0, 0.5f, 0.5f, 0, 0, 1, 1, 0.1f, 0.1f, 0.5f, 0.5f});
    List<Faces.Box> boxes = Faces.find(Arrays.asList(port("s", 1, 3, 2), port("b", 1, 3, 4)), values, 0);
    Check.equal(1, boxes.size()); // the third overlaps the first
    Check.near(0.9, boxes.get(0).score, 1e-6);
  }

  static void testOutputsOfNoDetectorAreShownAsTensors() {
    Map<String, float[]> values = Collections.singletonMap("y", new float[] {-1, 0, 4});
    Answer answer = Answer.of(Config.Task.FACES, NO_LABELS, Arrays.asList(port("y", 3)), values, 64);
    Check.equal(
        "[these outputs are not known as faces:, y FLOAT[3]: -1.0000 to 4.0000, mean 1.0000]", answer.lines.toString());
    Check.equal(
        "[y FLOAT[0]: empty]",
        Answer.of(Config.Task.CLASSES, NO_LABELS, Arrays.asList(port("y", 0)), Collections.singletonMap("y", new float[0]), 0)
            .lines
            .subList(1, 2)
            .toString());
  }

  static void testTheFiveBestClasses() {
    float[] logits = {0, 3, 1, -2, 5, 2, 4};
    List<Port> ports = Arrays.asList(port("y", 1, 7));
    Answer answer =
        Answer.of(Config.Task.CLASSES, Arrays.asList("zero", "one"), ports, Collections.singletonMap("y", logits), 0);
    Check.equal(5, answer.lines.size());
    Check.equal(" 63.3%  class 4", answer.lines.get(0));
    Check.equal("  8.6%  one", answer.lines.get(2));
    float[] shares = {0.25f, 0.75f}; // probabilities are left as they are
    Check.equal(
        "[ 75.0%  class 1,  25.0%  class 0]",
        Answer.of(Config.Task.CLASSES, NO_LABELS, ports, Collections.singletonMap("y", shares), 0).lines.toString());
  }

  static void testFiguresReadWell() {
    Check.equal("1023 B", Texts.size(1023));
    Check.equal("1.5 KiB", Texts.size(1536));
    Check.equal("1.81 MiB", Texts.size(1_900_544));
    Check.equal("1,900,544", Texts.count(1_900_544));
    Check.equal(
        "conv: 64 bytes at 1,024, events 3 to 9", Texts.selection(new Record("conv", 3, 9, 64, 1024, 0)));
    Snapshot none = new Snapshot();
    Check.equal("Opening", Texts.headline(none));
    Check.equal("plan: not run yet", Texts.source(none));
    Check.equal("", Texts.memory(none) + Texts.latency(none) + Texts.digest(none) + Texts.answer(none));
  }

  private static Snapshot after(long... numbers) {
    Snapshot state = new Snapshot();
    state.runtimeVersion = "1.29.0";
    state.run = Made.run(numbers);
    state.runs = 1;
    return state;
  }

  static void testWhichPlanRanIsTold() {
    Snapshot file = after(1, 1, 1000, 1000, 1000, 1000, 3000, 9, 9, 0, 0, 0);
    Check.equal("plan: file", Texts.source(file));
    Check.equal("1000 B arena", Texts.headline(file));
    Check.equal("= lower bound: no plan is smaller; measured = planned", Texts.subline(file));
    Check.equal(
        "planned        1,000 bytes\nmeasured       1,000 bytes, the highest byte in use\n"
            + "lower bound    1,000 bytes\nno sharing     3,000 bytes\n"
            + "from the arena 9 of 9 requests\nfrom the heap  0 bytes at most",
        Texts.memory(file));
    Snapshot here = after(2, 1, 1100, 1100, 1000, 1000, 3000, 9, 9, 0, 0, 1);
    Check.equal("plan: made on this device, 1 change of plan", Texts.source(here));
    Check.equal("1.100x of the lower bound; measured below planned", Texts.subline(here));
    Snapshot recorded = after(0, 0, 0, 0, 0, 0, 0, 9, 0, 9, 2000, 0);
    Check.equal("plan: none: recorded", Texts.source(recorded));
    Check.equal("Recording", Texts.headline(recorded));
    Snapshot partial = after(1, 0, 1000, 1000, 900, 1000, 3000, 9, 7, 2, 300, 0);
    Check.equal("2 requests did not fit into the plan and came from the heap", Texts.subline(partial));
  }

  static void testAPlanOfTheFileThatDidNotRunIsSaidAloud() {
    Snapshot state = after(2, 1, 1000, 1000, 1000, 1000, 3000, 9, 9, 0, 0, 1);
    Check.equal("", Texts.planNote(state)); // there is none in the file, which the library says
    state.planSet = Made.plan(PlanSet.Kind.RECORDING, true, 500);
    Check.equal(
        "the plan in the file, recorded with onnxruntime 1.31.1, does not fit what ONNX Runtime 1.29.0 asks for here",
        Texts.planNote(state));
    Check.equal(
        true,
        Texts.memory(state)
            .endsWith("in the file    500 bytes, greedy_by_size, plan of the recording of onnxruntime 1.31.1"));
    state.planSet = Made.plan(PlanSet.Kind.RECORDING, false, 500);
    Check.equal("the plan in the file has parts that a device does not follow", Texts.planNote(state));
    state.planSet = Made.plan(PlanSet.Kind.GRAPH, false, 500);
    Check.equal(true, Texts.planNote(state).endsWith("plan with --record --android for one that a device follows"));
    state = after(1, 1, 1000, 1000, 1000, 1000, 3000, 9, 9, 0, 0, 0);
    state.planSet = Made.plan(PlanSet.Kind.RECORDING, true, 1000);
    Check.equal("", Texts.planNote(state));
    Check.equal(true, Texts.planNote(after(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)).contains("for nothing"));
  }

  private static float[] filled(int count, float value) {
    float[] values = new float[count];
    Arrays.fill(values, value);
    return values;
  }

  private static Port port(String name, long... shape) {
    return new Port(name, "FLOAT", shape);
  }
}
