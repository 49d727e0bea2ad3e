package ai.edgemem;

import ai.onnxruntime.Alive;
import ai.onnxruntime.OnnxJavaType;
import ai.onnxruntime.OrtException;
import java.nio.ByteBuffer;
import java.nio.FloatBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.Map;

/** The library without its native half: sessions without a plan over a stand-in of ONNX Runtime. */
final class LibraryTests {
  private static final Map<String, FloatBuffer> NOTHING = Collections.emptyMap();

  private LibraryTests() {}

  private static PlannedModel.Options plain() {
    PlannedModel.Options options = new PlannedModel.Options();
    options.planned = false;
    return options;
  }

  private static PlannedModel model(String text, PlannedModel.Options options) throws OrtException {
    return new PlannedModel(text.getBytes(StandardCharsets.UTF_8), options);
  }

  static void testTheFirstRunIsNoneOfTheLastFifty() {
    Latency latency = new Latency();
    Check.equal(Double.NaN, latency.medianMs());
    latency.add(900_000_000);
    Check.equal(900.0, latency.firstMs());
    Check.equal(0, latency.count());
    for (int i = 1; i <= 60; i++) {
      latency.add(i * 1_000_000L); // 11 to 60 remain
    }
    Check.equal(50, latency.count());
    Check.equal(35.0, latency.medianMs());
    Check.equal(55.0, latency.percentileMs(90));
    Check.equal(60.0, latency.percentileMs(100));
    Check.refusal(IllegalArgumentException.class, () -> latency.percentileMs(0));
  }

  static void testAHalfIsTheSameAfterAFloat() {
    for (int bits = 0; bits < 1 << 16; bits++) {
      float value = Values.fromHalf((short) bits);
      if (!Float.isNaN(value)) {
        Check.equal((short) bits, Values.toHalf(value));
      }
    }
  }

  static void testAHalfIsTheNearestTiesToEven() {
    Check.equal((short) 0x3C00, Values.toHalf(1 + 1f / 2048)); // between 1 and 1 + 2^-10
    Check.equal((short) 0x3C02, Values.toHalf(1 + 3f / 2048));
    Check.equal((short) 0x7BFF, Values.toHalf(65519));
    Check.equal((short) 0x7C00, Values.toHalf(65520));
    Check.equal((short) 0x0400, Values.toHalf(6.1035156e-5f));
    Check.equal((short) 0x8000, Values.toHalf(-1e-9f));
    Check.equal(true, Float.isNaN(Values.fromHalf(Values.toHalf(Float.NaN))));
  }

  static void testWholeNumbersAreRoundedAndClipped() {
    float[] given = {-300, -1.6f, 0.4f, 127.6f, 300};
    Check.equal(Arrays.toString(new float[] {-128, -2, 0, 127, 127}), through(OnnxJavaType.INT8, given));
    Check.equal(Arrays.toString(new float[] {0, 0, 0, 128, 255}), through(OnnxJavaType.UINT8, given));
    Check.equal(Arrays.toString(new float[] {-300, -2, 0, 128, 300}), through(OnnxJavaType.INT64, given));
    Check.equal(Arrays.toString(new float[] {-300, -2, 0, 128, 300}), through(OnnxJavaType.INT16, given));
    Check.equal(Arrays.toString(new float[] {0, 0, 0, 1, 1}), through(OnnxJavaType.BOOL, given));
    Check.equal(Arrays.toString(given), through(OnnxJavaType.DOUBLE, given));
  }

  private static String through(OnnxJavaType type, float[] given) {
    ByteBuffer buffer = Values.allocate(type, given.length);
    Values.fill(type, buffer, FloatBuffer.wrap(given));
    return Arrays.toString(Values.floats(type, buffer));
  }

  static void testMadeUpValuesAreThoseOfTheFormula() {
    Check.equal((2654435761L >>> 8) / (float) (1 << 24), Values.seeded(0, 0));
    long third = (3 * 2654435761L + 7) % (1L << 32);
    Check.equal((third >>> 8) / (float) (1 << 24), Values.seeded(2, 7));
  }

  static void testARunGivesOutputsAndTheirDigest() throws OrtException {
    try (PlannedModel model = model("in x FLOAT 2,2\nout y FLOAT\nout z INT64", plain())) {
      float[] given = {0, 9, 1, 2, 3, 4, 9};
      FloatBuffer part = FloatBuffer.wrap(given, 2, 4);
      Map<String, float[]> outputs = model.run(Collections.singletonMap("x", part));
      Check.equal("[y, z]", outputs.keySet().toString());
      Check.equal("[3.0, 5.0, 7.0, 9.0]", Arrays.toString(outputs.get("y")));
      Check.equal("[3.0, 5.0, 7.0, 9.0]", Arrays.toString(outputs.get("z")));
      Check.equal("y FLOAT[2, 2]", model.outputs().get(0).toString());
      ByteBuffer bytes = ByteBuffer.allocate(48).order(java.nio.ByteOrder.nativeOrder());
      for (int i = 0; i < 4; i++) {
        bytes.putFloat(4 * i, 3 + 2 * i).putLong(16 + 8 * i, 3 + 2 * i);
      }
      Check.equal(Values.hex(Values.sha256().digest(bytes.array())), model.outputDigest());
      Check.equal("[3.0, 5.0, 7.0, 9.0]", Arrays.toString(model.run(NOTHING).get("y"))); // inputs stay
      Check.equal(1, model.latency().count());
      Check.equal(true, model.lastRun() == null && model.places().isEmpty() && model.notes().isEmpty());
    }
  }

  static void testInputsThatDoNotSuitAreRefused() throws OrtException {
    try (PlannedModel model = model("in x FLOAT 2,2\nout y FLOAT", plain())) {
      Check.equal(
          "there is no input X, there are [x]",
          Check.refusal(
              IllegalArgumentException.class,
              () -> model.run(Collections.singletonMap("X", FloatBuffer.allocate(4)))));
      Check.equal(
          "input x has 4 elements, not 5",
          Check.refusal(
              IllegalArgumentException.class,
              () -> model.run(Collections.singletonMap("x", FloatBuffer.allocate(5)))));
    }
  }

  static void testAnInputWithoutValuesIsRefusedAndNothingIsChanged() throws OrtException {
    try (PlannedModel model = model("in x FLOAT 2\nin t FLOAT 2\nout y FLOAT", plain())) {
      String why = " has no values: give them, or call fillInputs() for a trial with made-up ones";
      Check.equal("input x" + why, Check.refusal(IllegalArgumentException.class, () -> model.run(NOTHING)));
      FloatBuffer one = FloatBuffer.wrap(new float[] {1, 2});
      for (int k = 0; k < 2; k++) {
        Check.equal(
            "input t" + why,
            Check.refusal(IllegalArgumentException.class, () -> model.run(Collections.singletonMap("x", one))));
      }
      Check.equal(
          "input x" + why,
          Check.refusal(IllegalArgumentException.class, () -> model.run(Collections.singletonMap("t", one))));
      model.fillInputs();
      float[] made = model.run(NOTHING).get("y");
      Check.equal(true, made[0] != 3 && Arrays.equals(made, model.run(NOTHING).get("y")));
      Check.equal("[3.0, 5.0]", Arrays.toString(model.run(Collections.singletonMap("x", one)).get("y")));
    }
  }

  static void testOpenDimensionsAreToldAndBound() throws OrtException {
    PlannedModel.Options options = plain();
    options.dims.put("H", 8L);
    try (PlannedModel model = model("in x FLOAT N,3,H,W\nin t FLOAT T,4\nout y FLOAT", options)) {
      Check.equal("[x FLOAT[1, 3, 8, 224], t FLOAT[1, 4]]", model.inputs().toString());
      Check.equal(
          "[input x has open dimensions [-1, 3, -1, -1]: run at [1, 3, 8, 224],"
              + " input t has open dimensions [-1, 4]: run at [1, 4]]",
          model.notes().toString());
    }
    options.shapes.put("x", new long[] {2, 3, 8, 8});
    options.dims.put("T", 5L);
    try (PlannedModel model = model("in x FLOAT N,3,H,W\nin t FLOAT T,4\nout y FLOAT", options)) {
      Check.equal("[x FLOAT[2, 3, 8, 8], t FLOAT[5, 4]]", model.inputs().toString());
      Check.equal("[]", model.notes().toString());
    }
    try (PlannedModel model = model("in x FLOAT N,H,W,3\nout y FLOAT", plain())) {
      Check.equal("[x FLOAT[1, 224, 224, 3]]", model.inputs().toString());
    }
  }

  static void testAShapeThatDoesNotSuitIsRefusedAndNothingIsLeft() {
    for (long[] wrong : new long[][] {{1, 4, 8, 8}, {1, 3, 8}, {1, 3, 8, -1}}) {
      PlannedModel.Options options = plain();
      options.shapes.put("x", wrong);
      Check.equal(
          "input x has the shape [-1, 3, -1, -1], not " + Arrays.toString(wrong),
          Check.refusal(IllegalArgumentException.class, () -> model("in x FLOAT N,3,H,W\nout y FLOAT", options)));
    }
    PlannedModel.Options options = plain();
    options.dims.put("W", 1L << 40);
    Check.equal(
        "x FLOAT[1, 3, 224, 1099511627776] is too large, or its size is not known",
        Check.refusal(IllegalArgumentException.class, () -> model("in x FLOAT N,3,H,W\nout y FLOAT", options)));
    Check.equal(
        "input s has the type STRING, which is not fed",
        Check.refusal(
            IllegalArgumentException.class, () -> model("in x FLOAT 1\nin s STRING 1\nout y FLOAT", plain())));
    Check.equal("0 tensors, 0 sessions, 0 options", Alive.told());
  }

  static void testAProviderThatIsNotThereIsSaidAloud() throws OrtException {
    PlannedModel.Options options = plain();
    options.provider = Provider.NNAPI; // fake.providers has XNNPACK alone
    try (PlannedModel model = model("in x FLOAT 1\nout y FLOAT", options)) {
      Check.equal(Provider.CPU, model.provider());
      Check.equal(
          "[NNAPI is not used: this build of ONNX Runtime does not have it; the CPU runs the model]",
          model.notes().toString());
    }
  }

  static void testAProviderThatFailsIsSaidAloud() throws OrtException {
    PlannedModel.Options options = plain();
    options.provider = Provider.XNNPACK;
    try (PlannedModel model = model("broken XNNPACK\nin x FLOAT 1\nout y FLOAT", options)) {
      Check.equal(Provider.CPU, model.provider());
      Check.equal(
          "[XNNPACK is not used: the driver is missing; the CPU runs the model]", model.notes().toString());
    }
  }

  static void testAProviderThatLeavesOperatorsIsSaidAloud() throws OrtException {
    PlannedModel.Options options = plain();
    options.provider = Provider.XNNPACK;
    try (PlannedModel model = model("partial XNNPACK\nin x FLOAT 1\nout y FLOAT", options)) {
      Check.equal(Provider.XNNPACK, model.provider());
      Check.equal(
          "[XNNPACK does not take every operator: the CPU runs the others, which may be all of them]",
          model.notes().toString());
    }
    try (PlannedModel model = model("in x FLOAT 1\nout y FLOAT", options)) {
      Check.equal("[]", model.notes().toString());
    }
  }

  static void testNothingIsLeftAfterClose() throws OrtException {
    PlannedModel model = model("in x FLOAT 3\nin t FLOAT 2\nout y FLOAT", plain());
    model.fillInputs();
    model.run(NOTHING);
    Check.equal("2 tensors, 1 sessions, 0 options", Alive.told());
    model.close();
    model.close();
    Check.equal("0 tensors, 0 sessions, 0 options", Alive.told());
    Check.equal("the model is closed", Check.refusal(IllegalStateException.class, () -> model.run(NOTHING)));
    Check.equal("the model is closed", Check.refusal(IllegalStateException.class, model::fillInputs));
    Check.equal(0, model.places().size());
  }

  static void testARunThatFailsLeavesNothing() throws OrtException {
    try (PlannedModel model = model("fails\nin x FLOAT 1\nout y FLOAT", plain())) {
      model.fillInputs();
      Check.equal("the run failed", Check.refusal(OrtException.class, () -> model.run(NOTHING)));
      Check.equal("", model.outputDigest());
    }
    Check.equal("this is no model", Check.refusal(OrtException.class, () -> model("what", plain())));
    Check.equal("0 tensors, 0 sessions, 0 options", Alive.told());
  }

  static void testALibraryThatIsNotThereIsAnError() {
    PlannedModel.Options options = new PlannedModel.Options();
    options.library = "/nowhere/libedgemem.so";
    try {
      model("in x FLOAT 1\nout y FLOAT", options);
    } catch (UnsatisfiedLinkError e) {
      Check.equal(true, e.getMessage().contains("/nowhere/libedgemem.so"));
      Check.equal("0 tensors, 0 sessions, 0 options", Alive.told());
      return;
    } catch (OrtException e) {
      throw new AssertionError(e);
    }
    throw new AssertionError("a library that is not there was loaded");
  }

  static void testNumbersOfAnotherFormAreRefused() {
    Check.refusal(IllegalStateException.class, () -> new Run(new long[11]));
    Check.refusal(IllegalStateException.class, () -> new Run(new long[] {3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
    Check.refusal(IllegalStateException.class, () -> Record.listOf(new String[] {"a"}, new long[4]));
    Check.refusal(
        IllegalStateException.class,
        () -> new PlanSet(new long[] {5, 0, 0, 0, 0, 0, 0, 0, 0}, new String[6], Collections.<Record>emptyList()));
  }
}
