package ai.edgemem;

import ai.onnxruntime.NodeInfo;
import ai.onnxruntime.OnnxJavaType;
import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OnnxTensorLike;
import ai.onnxruntime.OnnxValue;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtSession;
import ai.onnxruntime.TensorInfo;
import java.nio.ByteBuffer;
import java.nio.FloatBuffer;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * A session of ONNX Runtime whose memory is planned: intermediate tensors, results and the workspace of kernels come
 * from one arena, at the places of a plan.
 *
 * <p>What could not be done as asked is never silent: {@link #notes} tells it. Methods may be called on any thread; runs
 * take turns.
 */
public final class PlannedModel implements AutoCloseable {
  /** How a model runs. */
  public static final class Options {
    /** In a plan; else as ONNX Runtime does by itself. */
    public boolean planned = true;

    public Provider provider = Provider.CPU;

    /** That compute an operator together; 0 is ONNX Runtime's choice. */
    public int threads = 1;

    /** Of ONNX Runtime's optimisations. A plan in the file is for the level that it was recorded at. */
    public Level level = Level.EXTENDED;

    /** See {@link MemorySession#MemorySession}. */
    public boolean poison;

    /** The path of libedgemem.so; null for the one that came with the app. */
    public String library;

    /** Sizes of open dimensions by name. */
    public final Map<String, Long> dims = new HashMap<>();

    /** Shapes of inputs by name. */
    public final Map<String, long[]> shapes = new HashMap<>();
  }

  private static final String LIBRARY = "libedgemem.so";

  private final OrtEnvironment environment;
  private final OrtSession session;
  private final Provider provider;
  private final List<String> notes = new ArrayList<>();
  private final List<Port> inputs = new ArrayList<>();
  private final Map<String, ByteBuffer> buffers = new LinkedHashMap<>();
  private final Map<String, OnnxTensor> tensors = new LinkedHashMap<>();
  private final Set<String> filled = new HashSet<>(); // inputs that have values
  private final Latency latency = new Latency();
  private List<Port> outputs = Collections.emptyList();
  private PlanFile plan;
  private MemorySession memory;
  private Run lastRun;
  private String outputDigest = "";
  private boolean isClosed;

  /**
   * @param model the bytes of an .onnx file without external data
   * @throws OrtException ONNX Runtime does not load the model
   * @throws IllegalArgumentException an input has a type or a size that cannot be fed, or a shape that was asked for
   *     does not suit the model
   * @throws UnsatisfiedLinkError libedgemem.so is missing
   */
  public PlannedModel(byte[] model, Options options) throws OrtException {
    environment = OrtEnvironment.getEnvironment();
    boolean isDone = false;
    OrtSession made = null;
    try {
      if (options.planned) {
        Native.load(options.library);
        plan = readPlan(model);
      }
      Sessions.Made result = Sessions.make(environment, model, options, library(options), notes);
      made = result.session;
      provider = result.provider;
      session = made;
      if (options.planned) {
        checkAllocator();
        memory = new MemorySession(plan, options.poison);
      }
      bindInputs(options);
      outputs = portsOf(session.getOutputInfo());
      isDone = true;
    } finally {
      if (!isDone) {
        closeAll(made);
      }
    }
  }

  private static String library(Options options) {
    return options.library == null ? LIBRARY : options.library;
  }

  private PlanFile readPlan(byte[] model) {
    try {
      return PlanFile.ofOnnx(model);
    } catch (IllegalArgumentException e) {
      notes.add("no plan from the file (" + e.getMessage() + "): the first run is recorded, and planned here");
      return null;
    }
  }

  private void checkAllocator() {
    String error = Native.ortError();
    if (!error.isEmpty()) {
      throw new IllegalStateException("ONNX Runtime does not take memory from edgemem: " + error);
    }
  }

  private void bindInputs(Options options) throws OrtException {
    for (Map.Entry<String, NodeInfo> entry : session.getInputInfo().entrySet()) {
      String name = entry.getKey();
      if (!(entry.getValue().getInfo() instanceof TensorInfo)) {
        throw new IllegalArgumentException("input " + name + " is no tensor");
      }
      TensorInfo info = (TensorInfo) entry.getValue().getInfo();
      if (!Values.isKnown(info.type)) {
        throw new IllegalArgumentException("input " + name + " has the type " + info.type + ", which is not fed");
      }
      long[] shape = Shapes.bind(name, info.getShape(), info.getDimensionNames(), options, notes);
      Port port = new Port(name, info.type.name(), shape);
      ByteBuffer buffer = Values.allocate(info.type, port.elements());
      inputs.add(port);
      buffers.put(name, buffer);
      tensors.put(name, OnnxTensor.createTensor(environment, buffer, shape, info.type));
    }
  }

  private static List<Port> portsOf(Map<String, NodeInfo> infos) {
    List<Port> ports = new ArrayList<>();
    for (Map.Entry<String, NodeInfo> entry : infos.entrySet()) {
      if (entry.getValue().getInfo() instanceof TensorInfo) {
        TensorInfo info = (TensorInfo) entry.getValue().getInfo();
        ports.add(new Port(entry.getKey(), info.type.name(), info.getShape()));
      }
    }
    return Collections.unmodifiableList(ports);
  }

  /**
   * Runs the model. An input that is not given keeps what it had in the run before.
   *
   * @param given values of inputs by name, each as many as the input has elements, from position to limit
   * @return the outputs by name, converted to floats; an output that is no tensor of numbers is left out
   * @throws OrtException an operator failed
   * @throws IllegalArgumentException there is no such input, it has another number of elements, or another one has no
   *     values yet; nothing is changed then
   */
  public synchronized Map<String, float[]> run(Map<String, FloatBuffer> given) throws OrtException {
    refuseClosed();
    for (Map.Entry<String, FloatBuffer> entry : given.entrySet()) {
      check(entry.getKey(), entry.getValue());
    }
    for (String name : tensors.keySet()) {
      if (!filled.contains(name) && !given.containsKey(name)) {
        throw new IllegalArgumentException(
            "input " + name + " has no values: give them, or call fillInputs() for a trial with made-up ones");
      }
    }
    for (Map.Entry<String, FloatBuffer> entry : given.entrySet()) {
      String name = entry.getKey();
      Values.fill(tensors.get(name).getInfo().type, buffers.get(name), entry.getValue());
      filled.add(name);
    }
    if (memory == null) {
      return compute();
    }
    memory.begin();
    Map<String, float[]> results;
    try {
      results = compute();
    } finally {
      lastRun = memory.end();
    }
    return results;
  }

  /** Gives every input made-up values, the same on every device: to measure a model, or to compare two devices. */
  public synchronized void fillInputs() {
    refuseClosed();
    int seed = 0;
    for (Port port : inputs) {
      TensorInfo info = tensors.get(port.name).getInfo();
      Values.fillSeeded(info.type, buffers.get(port.name), port.elements(), seed++);
      filled.add(port.name);
    }
  }

  private void refuseClosed() {
    if (isClosed) {
      throw new IllegalStateException("the model is closed");
    }
  }

  private void check(String name, FloatBuffer values) {
    OnnxTensor tensor = tensors.get(name);
    if (tensor == null) {
      throw new IllegalArgumentException("there is no input " + name + ", there are " + tensors.keySet());
    }
    TensorInfo info = tensor.getInfo();
    if (values.remaining() != info.getNumElements()) {
      throw new IllegalArgumentException(
          "input " + name + " has " + info.getNumElements() + " elements, not " + values.remaining());
    }
  }

  /** The run itself; results are copied, and their memory is back in the arena when it returns. */
  private Map<String, float[]> compute() throws OrtException {
    Map<String, OnnxTensorLike> feeds = new LinkedHashMap<String, OnnxTensorLike>(tensors);
    Map<String, float[]> results = new LinkedHashMap<>();
    List<Port> ports = new ArrayList<>();
    MessageDigest digest = Values.sha256();
    long before = System.nanoTime();
    try (OrtSession.Result result = session.run(feeds)) {
      latency.add(System.nanoTime() - before);
      for (Map.Entry<String, OnnxValue> entry : result) {
        if (!(entry.getValue() instanceof OnnxTensor)) {
          continue;
        }
        OnnxTensor tensor = (OnnxTensor) entry.getValue();
        TensorInfo info = tensor.getInfo();
        OnnxJavaType type = info.type;
        if (!Values.isKnown(type)) {
          continue;
        }
        ByteBuffer bytes = tensor.getByteBuffer();
        digest.update(bytes.duplicate());
        results.put(entry.getKey(), Values.floats(type, bytes));
        ports.add(new Port(entry.getKey(), type.name(), info.getShape()));
      }
    }
    outputs = Collections.unmodifiableList(ports);
    outputDigest = Values.hex(digest.digest());
    return results;
  }

  /** What happened to memory in the last run; null before it, and in a session that is not planned. */
  public synchronized Run lastRun() {
    return lastRun;
  }

  /** The plans in the model's file; null if it has none that can be read, or the session is not planned. */
  public PlanFile plan() {
    return plan;
  }

  /** The plan in use, for a memory map; empty before there is one, and in a session that is not planned. */
  public synchronized List<Record> places() {
    return memory == null || isClosed ? Collections.<Record>emptyList() : memory.places();
  }

  /** Who runs the model: what was asked for, or the CPU if that is not there. */
  public Provider provider() {
    return provider;
  }

  /** What is not as it was asked for, a sentence each. */
  public List<String> notes() {
    return Collections.unmodifiableList(notes);
  }

  public List<Port> inputs() {
    return Collections.unmodifiableList(inputs);
  }

  /** With the shapes of the last run. */
  public synchronized List<Port> outputs() {
    return outputs;
  }

  /** The SHA-256 of the bytes of the last run's outputs, one after the other; "" before the first run. */
  public synchronized String outputDigest() {
    return outputDigest;
  }

  /** Of runs without the copying around them. */
  public Latency latency() {
    return latency;
  }

  /** ONNX Runtime's. */
  public String version() {
    return environment.getVersion();
  }

  /** Waits for a run that is under way; a second call does nothing. */
  @Override
  public synchronized void close() throws OrtException {
    if (!isClosed) {
      isClosed = true;
      closeAll(session);
    }
  }

  private void closeAll(OrtSession one) throws OrtException {
    for (OnnxTensor tensor : tensors.values()) {
      tensor.close();
    }
    try {
      if (one != null) {
        one.close();
      }
    } finally {
      if (memory != null) {
        memory.close();
      }
      if (plan != null) {
        plan.close();
      }
    }
  }
}
