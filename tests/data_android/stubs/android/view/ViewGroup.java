package android.view;

public abstract class ViewGroup extends View {
    public ViewGroup(android.content.Context context) {
        super(context);
    }

    public native void addView(View child);

    public native void addView(View child, LayoutParams parameters);

    public static class LayoutParams {
        public static final int MATCH_PARENT = -1;

        public LayoutParams(int width, int height) {
        }
    }
}
