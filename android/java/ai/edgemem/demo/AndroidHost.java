package ai.edgemem.demo;

import android.content.Context;
import android.content.res.AssetManager;
import android.os.Debug;
import android.os.Handler;
import android.os.Looper;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;

/** What the engine takes from Android. It keeps the application alive, not an activity. */
final class AndroidHost implements Engine.Host {
  private final AssetManager assets;
  private final Handler handler = new Handler(Looper.getMainLooper());

  AndroidHost(Context context) {
    assets = context.getApplicationContext().getAssets();
  }

  @Override
  public byte[] asset(String name) throws IOException {
    try (InputStream in = assets.open(name)) {
      ByteArrayOutputStream bytes = new ByteArrayOutputStream(Math.max(in.available(), 32));
      byte[] block = new byte[1 << 16];
      int count = in.read(block);
      while (count >= 0) {
        bytes.write(block, 0, count);
        count = in.read(block);
      }
      return bytes.toByteArray();
    }
  }

  @Override
  public void post(Runnable what) {
    handler.post(what);
  }

  @Override
  public long nativeHeap() {
    return Debug.getNativeHeapAllocatedSize();
  }
}
