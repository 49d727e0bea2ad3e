package android.view;

public class View {
    public View(android.content.Context context) {
    }

    public final native int getWidth();

    public final native int getHeight();

    protected native void onDraw(android.graphics.Canvas canvas);
}
