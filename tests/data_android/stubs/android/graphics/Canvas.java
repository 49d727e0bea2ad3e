package android.graphics;

public class Canvas {
    public native void drawRect(float left, float top, float right, float bottom, Paint paint);
}
