package android.graphics;

public class Color {
    public static final int DKGRAY = 0xFF444444;

    public static native int HSVToColor(float[] hsv);
}
