package android.content;

import android.content.res.AssetManager;
import android.content.res.Resources;

/** A stand-in: of the application, whatever the base is. */
public class ContextWrapper extends Context {
  private static final AssetManager ASSETS = new AssetManager();
  private static final Resources RESOURCES = new Resources();
  private static final ContentResolver RESOLVER = new ContentResolver(null) {};
  private static final Context APPLICATION = new ContextWrapper(null);

  public ContextWrapper(Context base) {}

  @Override
  public AssetManager getAssets() {
    return ASSETS;
  }

  @Override
  public Resources getResources() {
    return RESOURCES;
  }

  @Override
  public ContentResolver getContentResolver() {
    return RESOLVER;
  }

  @Override
  public Context getApplicationContext() {
    return APPLICATION;
  }
}
