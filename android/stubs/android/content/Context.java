package android.content;

import android.content.res.AssetManager;
import android.content.res.Resources;

public abstract class Context {
  public Context() {
    throw new RuntimeException("stub");
  }

  public abstract AssetManager getAssets();

  public abstract Resources getResources();

  public abstract ContentResolver getContentResolver();

  public abstract Context getApplicationContext();
}
