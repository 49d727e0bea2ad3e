package android.view;

public class View {
    public View(android.content.Context context) {
    }

    public void setOnClickListener(OnClickListener listener) {
    }

    public interface OnClickListener {
        void onClick(View view);
    }

    public final native int getWidth();

    public final native int getHeight();

    protected native void onDraw(android.graphics.Canvas canvas);

    /** Of this view, and of those in it; not a method of Android's. */
    public String text() {
        return "";
    }
}
