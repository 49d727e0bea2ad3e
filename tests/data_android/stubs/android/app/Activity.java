package android.app;

import android.content.res.AssetManager;
import android.os.Bundle;
import android.view.View;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

public class Activity extends android.content.Context {
    private final LinkedBlockingQueue<Runnable> posted = new LinkedBlockingQueue<>();
    private View content;

    public AssetManager getAssets() {
        return new AssetManager();
    }

    protected void onCreate(Bundle state) {
    }

    protected void onDestroy() {
    }

    public void setContentView(View view) {
        content = view;
    }

    public final void runOnUiThread(Runnable action) {
        posted.add(action);
    }

    /** Prints the text on the screen of an app's activity after its first action: java -Dapk=FILE android.app.Activity NAME. */
    public static void main(String[] names) throws Exception {
        Activity activity = (Activity) Class.forName(names[0]).getDeclaredConstructor().newInstance();
        activity.onCreate(null);
        Runnable action = activity.posted.poll(120, TimeUnit.SECONDS);
        if (action == null) {
            throw new IllegalStateException("the app posted nothing to its screen");
        }
        action.run();
        activity.onDestroy();
        System.out.println(activity.content.text());
    }
}
