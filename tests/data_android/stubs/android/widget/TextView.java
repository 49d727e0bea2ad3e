package android.widget;

public class TextView extends android.view.View {
    public TextView(android.content.Context context) {
        super(context);
    }

    public native CharSequence getText();

    public final native void setText(CharSequence text);
}
