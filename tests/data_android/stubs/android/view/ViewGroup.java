package android.view;

public abstract class ViewGroup extends View {
    private View child;

    public ViewGroup(android.content.Context context) {
        super(context);
    }

    public void addView(View child) {
        this.child = child;
    }

    public native void addView(View child, LayoutParams parameters);

    @Override
    public String text() {
        return child == null ? "" : child.text();
    }

    public static class LayoutParams {
        public static final int MATCH_PARENT = -1;

        public LayoutParams(int width, int height) {
        }
    }
}
