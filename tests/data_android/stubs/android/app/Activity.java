package android.app;

public class Activity extends android.content.Context {
    public native android.content.res.AssetManager getAssets();

    protected native void onCreate(android.os.Bundle state);

    protected native void onDestroy();

    public native void setContentView(android.view.View view);

    public final native void runOnUiThread(Runnable action);
}
