package android.widget;

public class TextView extends android.view.View {
    private CharSequence text = "";

    public TextView(android.content.Context context) {
        super(context);
    }

    public CharSequence getText() {
        return text;
    }

    public final void setText(CharSequence text) {
        this.text = text;
    }

    @Override
    public String text() {
        return text.toString();
    }
}
