package ai.onnxruntime;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** A stand-in. */
public class OnnxTensor extends OnnxTensorLike {
  final ByteBuffer data;
  private boolean isClosed;

  OnnxTensor(ByteBuffer data, TensorInfo info) {
    super(info);
    this.data = data;
    Alive.TENSORS.incrementAndGet();
  }

  public static OnnxTensor createTensor(OrtEnvironment env, ByteBuffer data, long[] shape, OnnxJavaType type)
      throws OrtException {
    TensorInfo info = new TensorInfo(shape, new String[shape.length], type);
    if (data.remaining() != info.getNumElements() * type.size) {
      throw new OrtException("the buffer has another size than the shape");
    }
    return new OnnxTensor(data, info);
  }

  public ByteBuffer getByteBuffer() {
    if (isClosed) {
      throw new IllegalStateException("Trying to use a closed OnnxValue");
    }
    ByteBuffer copy = ByteBuffer.allocate(data.capacity()).order(ByteOrder.nativeOrder());
    for (int i = 0; i < data.capacity(); i++) {
      copy.put(i, data.get(i));
    }
    return copy;
  }

  @Override
  public synchronized void close() {
    if (!isClosed) {
      isClosed = true;
      Alive.TENSORS.decrementAndGet();
    }
  }
}
