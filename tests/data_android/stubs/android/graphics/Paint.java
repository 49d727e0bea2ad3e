package android.graphics;

public class Paint {
    public enum Style {
        FILL, STROKE
    }

    public native Style getStyle();

    public native void setStyle(Style style);

    public native int getColor();

    public native void setColor(int color);
}
