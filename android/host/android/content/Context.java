package android.content;

import android.content.res.AssetManager;
import android.content.res.Resources;

/** A stand-in: the application is the activity itself. */
public abstract class Context {
  public Context() {}

  public abstract AssetManager getAssets();

  public abstract Resources getResources();

  public abstract ContentResolver getContentResolver();

  public abstract Context getApplicationContext();
}
