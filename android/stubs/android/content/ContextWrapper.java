package android.content;

import android.content.res.AssetManager;
import android.content.res.Resources;

public class ContextWrapper extends Context {
  public ContextWrapper(Context base) {
    throw new RuntimeException("stub");
  }

  @Override
  public AssetManager getAssets() {
    throw new RuntimeException("stub");
  }

  @Override
  public Resources getResources() {
    throw new RuntimeException("stub");
  }

  @Override
  public ContentResolver getContentResolver() {
    throw new RuntimeException("stub");
  }

  @Override
  public Context getApplicationContext() {
    throw new RuntimeException("stub");
  }
}
